# Writes models/cost/model_data.h into `folder`: rules of model types, and released models, as texts in the
# program.
function(headcount_model_data folder)
  set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${here}/model_types.json ${here}/released_models.json)
  file(READ ${here}/model_types.json model_types)
  file(READ ${here}/released_models.json released_models)
  file(CONFIGURE OUTPUT ${folder}/models/cost/model_data.h CONTENT
    "#pragma once
namespace headcount {
inline constexpr const char* kModelTypes = R\"json(@model_types@)json\";
inline constexpr const char* kReleasedModels = R\"json(@released_models@)json\";
}
" @ONLY)
endfunction()
